SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Tools that are built once, from source.
SQLC := bin/sqlc
LINT := bin/golangci-lint
DISPOSABLE := go run ./tests/cmd/disposable
# PostgreSQL's version, for make image.
VERSION ?= 15
# SERVER=container or SERVER=local: use that kind of server only.
SERVER ?=
TESTFLAGS ?=
# For make test/matrix: the short form, and a regular expression that selects cells.
SHORT ?=
CELLS ?=
# For make test/mutants: a regular expression that selects mutants by name.
FILTER ?=
BENCHFLAGS ?=
ADAPTERS := a2a adk eventstore mcp tests
PACKAGES := ./... ./tests/... $(ADAPTERS:%=./adapters/%/...)
# These have tests whose names begin with TestAmount.
AMOUNTS := ./internal/export ./repo/memory ./repo/rules ./tests/command ./tests/postgres

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z\/]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Demonstrate concurrent appends, on DATABASE_URL or a disposable database
	@$(DISPOSABLE) -durable -optional -server '$(SERVER)' go run ./cmd/agentstore demo

.PHONY: bench
bench: ## Compare with hand-written SQL; BENCHFLAGS='--plot DIR', see agentstore bench --help
	@$(DISPOSABLE) -durable -server '$(SERVER)' go run ./cmd/agentstore bench $(BENCHFLAGS)

.PHONY: bench/go
bench/go: ## Run the Go benchmarks, for benchstat; BENCHFLAGS='-count 10'
	@$(DISPOSABLE) -durable -server '$(SERVER)' go test -timeout 60m -run '^$$' -bench . $(BENCHFLAGS) ./tests/bench ./repo/memory

.PHONY: bench/adapters
bench/adapters: ## Compare the adapters with the frameworks' own stores; BENCHFLAGS='-rounds 5'
	@$(DISPOSABLE) -durable -server '$(SERVER)' go run ./adapters/tests/bench $(BENCHFLAGS)

# Most tests wait for the server, so more of them than processors run at once,
# and the package that takes longest is the first. Tests of amounts would take minutes
# with the race detector, so that they are compiled without it only.
.PHONY: test
test: ## Run the whole suite with the race detector, on a disposable PostgreSQL
	@bash tests/install.sh
	$(DISPOSABLE) -server '$(SERVER)' bash -c '\
		go test -race -timeout 25m -p 2 -parallel 6 $(TESTFLAGS) ./tests/postgres $(PACKAGES) && \
		go test -timeout 10m -run Amount $(TESTFLAGS) $(AMOUNTS)'

.PHONY: test/matrix
test/matrix: ## Run the suite on each version of PostgreSQL, and under each setting; SHORT=1, CELLS=REGEXP
	go run ./tests/cmd/matrix $(if $(SHORT),-short) -cells '$(CELLS)'

.PHONY: test/mutants
test/mutants: $(SQLC) ## Check that a test fails for each of many small changes to the code; FILTER=REGEXP
	go run ./tests/cmd/mutants -sqlc $(SQLC) -filter '$(FILTER)'

.PHONY: faults
faults: ## Inject each fault at least 20 times, and print a table of the results
	AGENTSTORE_FAULTS=full go test -race -v -count=1 -timeout 15m $(TESTFLAGS) ./tests/faults

.PHONY: soak
soak: ## Check in ten minutes of mixed load that memory, goroutines and connections do not grow
	$(DISPOSABLE) -durable -server '$(SERVER)' env AGENTSTORE_SOAK=10m go test -timeout 20m -v -count 1 ./tests/soak

.PHONY: generate
generate: $(SQLC) ## Generate db/ from queries/ and schema/
	$(SQLC) generate

.PHONY: verify
verify: verify/generate verify/queries verify/modules ## Run all verify targets below

.PHONY: verify/generate
verify/generate: $(SQLC) ## Check that db/ is current
	$(SQLC) diff

.PHONY: verify/queries
verify/queries: $(SQLC) ## Prepare each query on a migrated database
	$(DISPOSABLE) -server '$(SERVER)' bash -c 'go run ./cmd/agentstore migrate up && $(SQLC) vet'

.PHONY: verify/modules
verify/modules: ## Check go.mod, and the list of modules that importers download
	for module in . $(ADAPTERS:%=adapters/%); do (cd $$module && GOWORK=off go mod tidy -diff); done
	GOWORK=off go build ./...
	GOWORK=off go vet ./...
	tests/imports/list.sh | diff tests/imports/modules.txt - || { echo "the modules that importers download have changed. If that is intended: tests/imports/list.sh > tests/imports/modules.txt"; exit 1; }

.PHONY: lint
lint: $(LINT) ## Lint
	$(LINT) run $(PACKAGES)

.PHONY: image
image: ## Build a PostgreSQL image, for machines without access to a registry; VERSION=13
	bash tests/image/build.sh $(VERSION)

.PHONY: tools
tools: $(SQLC) $(LINT) ## Build the pinned tools into bin/

$(SQLC): tools/go.mod tools/go.sum
	cd tools && GOWORK=off CGO_ENABLED=0 go build -o ../bin/ github.com/sqlc-dev/sqlc/cmd/sqlc

$(LINT): tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && GOWORK=off CGO_ENABLED=0 go build -o ../../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: clean
clean: ## Remove bin/
	rm -rf bin
