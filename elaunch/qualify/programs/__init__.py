"""What runs inside of the ranks of a qualification; torch is imported here and nowhere else in it."""
