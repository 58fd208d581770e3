"""Tables, names and features: everything that reads what users bring."""
