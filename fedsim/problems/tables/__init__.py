"""Tables of mixed columns: their files, the roles of their columns, and features made of them."""
