"""Ways into rooms for programs that speak other protocols than ours."""
