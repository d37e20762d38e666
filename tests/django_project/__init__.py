"""A Django project with Django's own tasks, the dashboard and the admin, which the tests beside it run and serve."""
