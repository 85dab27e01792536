"""SQL statements of a local deployment: what runs them, and what is kept of them."""
