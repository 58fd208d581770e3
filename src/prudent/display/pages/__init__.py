"""Pages of HTML: one self-contained file each, with figures, tables and style inside."""
