"""The shared app for programs that are not Django's: `holdfast jobs list --app holdfast.contrib.django.standalone:app`.

Importing it sets Django up, by DJANGO_SETTINGS_MODULE.
"""

from __future__ import annotations

import django
from django.apps import apps

from .project import shared_app

if not apps.ready:
    django.setup()

app = shared_app()
