"""What libraries read in the environment, from what a rank is bound to: one module for each library. Pure."""
