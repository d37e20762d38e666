"""From HTTP to typed functions and back: what the types say is what is checked, and what the document says."""
