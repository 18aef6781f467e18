"""What the outside must offer: protocols, and the small values they speak."""
