from django.urls import path

from . import views

urlpatterns = [
    path("", views.orders),
    path("async/", views.place_async),
    path("<int:order_id>/", views.order),
]
