"""Values of users as JSON: encoding, decoding, and references to results of other jobs."""
