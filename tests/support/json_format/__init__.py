"""What BMv2's page of its JSON says: a program of JSON that no compiler made, a packet for each
sentence and what leaves for it, what is refused, and the page that lists them."""
