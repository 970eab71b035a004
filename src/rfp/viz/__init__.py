"""Pictures, drawn with matplotlib (the extra ``cli``)."""
