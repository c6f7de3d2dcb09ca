"""What happens to packets in compiled code: queues, links, pipelines, look-up, and its records."""
