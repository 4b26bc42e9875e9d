"""The papers as data: files of rows, the numbers measured for them, and the page of both."""
