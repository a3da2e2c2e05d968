SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The tools are built from source, once, into bin/.
SQLC := bin/sqlc
LINT := bin/golangci-lint
DISPOSABLE := go run ./tests/cmd/disposable
# PostgreSQL's version, for make image.
VERSION ?= 15
# Where SERVER is container or local, that kind of server and no other.
SERVER ?=
TESTFLAGS ?=
# For make test/matrix: the short form, and a part of the cells.
SHORT ?=
CELLS ?=
# For make test/mutants: the names.
FILTER ?=
BENCHFLAGS ?=
PACKAGES := ./... ./tests/...

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z\/]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show the main job, on DATABASE_URL or a disposable database
	@$(DISPOSABLE) -durable -optional -server '$(SERVER)' go run ./cmd/agentstore demo

.PHONY: bench
bench: ## Measure beside doing it by hand; BENCHFLAGS='--plot DIR', see agentstore bench --help
	@$(DISPOSABLE) -durable -server '$(SERVER)' go run ./cmd/agentstore bench $(BENCHFLAGS)

.PHONY: bench/go
bench/go: ## Run the Go benchmarks, for benchstat; BENCHFLAGS='-count 10'
	@$(DISPOSABLE) -durable -server '$(SERVER)' go test -timeout 60m -run '^$$' -bench . $(BENCHFLAGS) ./tests/bench ./repo/memory

.PHONY: test
test: ## Run the whole suite with the race detector, on a disposable PostgreSQL
	@bash tests/install.sh
	$(DISPOSABLE) -server '$(SERVER)' go test -race -timeout 25m $(TESTFLAGS) $(PACKAGES)

.PHONY: test/matrix
test/matrix: ## Run the suite on every version of PostgreSQL, and under every setting; SHORT=1, CELLS=REGEXP
	go run ./tests/cmd/matrix $(if $(SHORT),-short) -cells '$(CELLS)'

.PHONY: test/mutants
test/mutants: $(SQLC) ## Change the code in one place at a time, and see that a test notices; FILTER=REGEXP
	go run ./tests/cmd/mutants -sqlc $(SQLC) -filter '$(FILTER)'

.PHONY: faults
faults: ## Make every fault, 20 times and more each, and print the table of them
	AGENTSTORE_FAULTS=full go test -race -v -count=1 -timeout 15m $(TESTFLAGS) ./tests/faults

.PHONY: soak
soak: ## Ten minutes of mixed load: memory, goroutines and connections stay flat
	$(DISPOSABLE) -durable -server '$(SERVER)' env AGENTSTORE_SOAK=10m go test -timeout 20m -v -count 1 ./tests/soak

.PHONY: generate
generate: $(SQLC) ## Generate db/ from queries/ and schema/
	$(SQLC) generate

.PHONY: verify
verify: verify/generate verify/queries verify/modules ## Check all that is generated or recorded

.PHONY: verify/generate
verify/generate: $(SQLC) ## Check that db/ is current
	$(SQLC) diff

.PHONY: verify/queries
verify/queries: $(SQLC) ## Prepare every query against a migrated database
	$(DISPOSABLE) -server '$(SERVER)' bash -c 'go run ./cmd/agentstore migrate up && $(SQLC) vet'

.PHONY: verify/modules
verify/modules: ## Check go.mod files, and the list of what importers download
	GOWORK=off go mod tidy -diff
	GOWORK=off go build ./...
	GOWORK=off go vet ./...
	tests/imports/list.sh | diff tests/imports/modules.txt - || { echo "what importers download has changed: tests/imports/list.sh > tests/imports/modules.txt if that is meant"; exit 1; }

.PHONY: lint
lint: $(LINT) ## Lint
	$(LINT) run $(PACKAGES)

.PHONY: image
image: ## Build the PostgreSQL image that stands in where there is no registry; VERSION=13
	bash image/build.sh $(VERSION)

.PHONY: tools
tools: $(SQLC) $(LINT) ## Build the pinned tools into bin/

$(SQLC): tools/go.mod tools/go.sum
	cd tools && GOWORK=off CGO_ENABLED=0 go build -o ../bin/ github.com/sqlc-dev/sqlc/cmd/sqlc

$(LINT): tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && GOWORK=off CGO_ENABLED=0 go build -o ../../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
