package faults
const clientEnv = "X"
func clientMain() int { return 0 }
