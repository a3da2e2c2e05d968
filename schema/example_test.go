package schema_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/seed-df90f812/agentstore/schema"
)

// A service that migrates its database when it starts. Any number of instances may
// do so at once.
func ExampleUp() {
	ctx := context.Background()
	if err := schema.Up(ctx, os.Getenv("DATABASE_URL")); err != nil {
		log.Fatal(err)
	}
	// Again, there is nothing to do.
	fmt.Println(schema.Up(ctx, os.Getenv("DATABASE_URL")))
	// Prints:
	// <nil>
}

// A deployment tool looks at what a run would do, does it, and reverts it.
func ExampleMigrator() {
	ctx := context.Background()
	migrator, err := schema.Open(ctx, os.Getenv("DATABASE_URL"), schema.Options{})
	if err != nil {
		log.Fatal(err)
	}
	planned, err := migrator.Plan(ctx, schema.TargetLatest())
	if err != nil {
		log.Fatal(err)
	}
	applied, err := migrator.Run(ctx, schema.TargetLatest())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(planned) == len(applied), applied[0].Name, migrator.Validate(ctx))
	reverted, err := migrator.Run(ctx, schema.TargetDownSteps(1))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reverted[0].Direction, reverted[0].Version == schema.Latest())
	// Prints:
	// true 0001_sessions <nil>
	// down true
}
