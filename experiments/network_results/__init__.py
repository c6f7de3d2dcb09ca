"""What a network that is up leaves behind, whatever programs its switches run: ``results.json``
with schema ``weft.network``, and its report."""
