"""Services beside the jobs: schedules, rescue, retention, statistics, flows and webhooks."""
