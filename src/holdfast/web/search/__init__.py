"""The search for jobs: parsing, matching, and finding within a bounded cost."""
