"""From the intermediate form to BMv2 JSON and P4Info."""
