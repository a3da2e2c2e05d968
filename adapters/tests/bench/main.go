// Command bench compares the adapters with the frameworks' own database stores, on one
// server (DATABASE_URL), in turns. The ratios hold on other machines, the figures do not.
// It works in two schemas, which it drops at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 3, "rounds of each workload")
	duration := flag.Duration("duration", 5*time.Second, "of each way in each round")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("DATABASE_URL"), workloads, *rounds, *duration, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
