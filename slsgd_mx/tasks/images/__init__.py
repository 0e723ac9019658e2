"""Images and labels as arrays, from a file or a script, with the paper's CNN or another network."""
