"""What is computed with kcagc but is not part of it."""
