"""Work for minutes at a steady rate, with kills: what must stay flat is measured from outside."""
