"""Generated code, never edited: see proto/ and `make proto`."""
