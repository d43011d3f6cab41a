"""What a model's files say: size, vocabulary, fingerprints; and files made from them."""
