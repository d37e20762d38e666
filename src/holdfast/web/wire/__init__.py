"""From HTTP to typed functions and back: the types validate requests and describe the API."""
