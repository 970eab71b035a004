"""Other libraries' registries, one module each; importing a module registers. See docs/guides/integrations.md."""
