"""Options that verbs share: one line of help each, checked before anything is read."""
