"""From the table of a TOML to a typed view of it, and every problem with its place."""
