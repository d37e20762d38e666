"""The dashboard's URL: `path("jobs/", include("holdfast.contrib.django.urls"))`."""

from __future__ import annotations

from django.urls import re_path

from .dashboard import dashboard

app_name = "holdfast"
urlpatterns = [re_path(r"^(?P<below>.*)$", dashboard, name="dashboard")]
