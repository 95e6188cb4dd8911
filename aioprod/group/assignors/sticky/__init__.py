"""The sticky and the cooperative-sticky assignor: balanced, with as few moves as that allows (KIP-54, KIP-429)."""
