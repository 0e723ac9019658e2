"""Small problems whose constants L, mu and x_* are known, for the theorems."""
