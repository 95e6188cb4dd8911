"""What it costs to handle many records at once: `member.work` beside FastStream and Java's parallel-consumer."""
