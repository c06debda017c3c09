"""Where text and labels come from. Every kind of source yields the same records."""
