package bench

func (o Outcome) SVG() []byte { return nil }
