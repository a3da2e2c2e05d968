SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# Tools that are built once, from source.
SQLC := bin/sqlc
LINT := bin/golangci-lint
VULN := bin/govulncheck
DISPOSABLE := go run ./tests/cmd/disposable
# PostgreSQL's version, for make image.
VERSION ?= 15
# SERVER=container or SERVER=local: use that kind of server only. The tests prefer the machine's own programs, which
# cost the least, and of which many tests start servers anyway.
SERVER ?=
NEAREST := local,container
TESTFLAGS ?=
# For make test/matrix: the short form, and a regular expression that selects cells.
SHORT ?=
CELLS ?=
# For make test/mutants: a regular expression that selects mutants by name.
FILTER ?=
BENCHFLAGS ?=
# Modules of their own, beside the root's.
MODULES := cmd/agentstore examples/jobs otelagentstore tests tests/bench $(addprefix adapters/,a2a adk mcp tests)
PACKAGES := ./... $(MODULES:%=./%/...)
# Those whose tests need no server.
QUICK := ./... ./cmd/agentstore/...
# Of these, make test has the tests of docs/guarantees.md, and make test/all has the others.
PROMISES := $(addprefix ./tests/,approval audit budget bugreports clock command directory effect files grants inspect live pgbouncer plans tables tls usage)
WHOLE := $(addprefix ./tests/,costs faults migrate pgtest timing)
# These are in make test/all only: frameworks and documents, whose programs are built one by one,
# several servers, and the tests' own tools.
REST := $(addprefix ./adapters/,a2a/... adk/... mcp/... tests/...) ./otelagentstore/... ./examples/jobs/... $(addprefix ./tests/,cmd/... copies docs failover imports refund soak wrongstore)
# Tests in a browser, and of a second or third setting of what one shows: make test/all has them.
APART := InBrowser|UnderSettings|EachIsolationLevel|ConformanceInTx|ConformanceOfViews
# Without what only debuggers read, the test binaries are linked in two thirds of the time. make lint vets.
TEST := go test -json -ldflags=-w -vet=off
ONCE = -timeout $(if $(AGENTSTORE_TEST_FULL),120m,40m) -p 2 -parallel 6 $(TESTFLAGS)
# Prints what failed, and at the end what each package took.
TIMES := go run ./tests/cmd/times

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

.PHONY: test/quick
test/quick: ## Run what needs no server, and the conformance suite on one of binaries: at every change
	@{ $(TEST) -parallel 16 $(QUICK) && \
		$(DISPOSABLE) -server local $(TEST) -count 1 -parallel 16 -run '^TestConformanceOfPool$$' ./tests/postgres; } | $(TIMES) -slowest 5

# Most tests wait for the server, so more of them than processors run at once. Everything is compiled with the race
# detector, programs that tests start too: a second way of compiling would take longer than it makes the tests faster.
.PHONY: test
test: export GOFLAGS += -race
test: ## Run the unit tests, the conformance suite, faults, and each guarantee once, in minutes
	@bash tests/install.sh
	@$(DISPOSABLE) -server '$(or $(SERVER),$(NEAREST))' bash -c 'failed=0; \
		promised=$$(go run ./tests/cmd/guarantees -tests) || exit 1; \
		$(TEST) $(ONCE) -run "$$promised|^TestConformanceOfPool$$" -skip "$(APART)" ./tests/postgres $(PROMISES) || failed=1; \
		$(TEST) $(ONCE) -skip "$(APART)" $(QUICK) $(WHOLE) || failed=1; \
		exit $$failed' | $(TIMES)

.PHONY: test/all
test/all: ## Run what make test leaves out: other settings, amounts, frameworks, documents, browsers
	@bash tests/install.sh
	@$(DISPOSABLE) -server '$(or $(SERVER),$(NEAREST))' bash -c 'failed=0; \
		promised=$$(go run ./tests/cmd/guarantees -tests) || exit 1; \
		$(TEST) $(ONCE) -skip "$$promised|$(APART)|^TestConformanceOfPool$$" ./tests/postgres $(PROMISES) || failed=1; \
		$(TEST) $(ONCE) -run "$(APART)" ./repo/memory ./tests/postgres ./tests/inspect ./tests/live || failed=1; \
		$(TEST) $(ONCE) $(REST) || failed=1; \
		$(TEST) $(ONCE) -run Amount ./... || failed=1; \
		exit $$failed' | $(TIMES)

.PHONY: test/slow
test/slow: ## Run make test on one processor beside two busy loops, three times
	@bash tests/slow.sh $(MAKE) --no-print-directory test SERVER=local TESTFLAGS=-count=1

.PHONY: test/citus
test/citus: ## Run the suite on three nodes of Citus, move shards, and kill a node; it says what it needs
	@$(TEST) -tags citus -parallel 8 -timeout 60m $(TESTFLAGS) ./tests/citus | $(TIMES)

# AGENTSTORE_TEST_FULL is explained in tests/pgtest.
.PHONY: test/full
test/full: ## Run all of that with repetitions, large amounts and every mode, and the matrix: for hours
	@$(MAKE) test test/all AGENTSTORE_TEST_FULL=1
	@$(TEST) -race -count 20 -run '^TestConformance$$/(Races|Concurrency|Follow)$$' ./repo/memory | $(TIMES) -slowest 0
	$(MAKE) test/matrix

.PHONY: test/matrix
test/matrix: ## Run the suite on each version of PostgreSQL, and under each setting; SHORT=1, CELLS=REGEXP
	go run ./tests/cmd/matrix $(if $(SHORT),-short) -cells '$(CELLS)'

.PHONY: test/mutants
test/mutants: $(SQLC) ## Check that a test fails for each of many small changes to the code; FILTER=REGEXP
	go run ./tests/cmd/mutants -sqlc $(SQLC) -filter '$(FILTER)'

.PHONY: faults
faults: ## Inject each fault at least 20 times, and print a table of the results
	AGENTSTORE_TEST_FULL=1 go test -race -v -count=1 -timeout 15m $(TESTFLAGS) ./tests/faults

.PHONY: soak
soak: ## Check in ten minutes of mixed load that memory, goroutines and connections do not grow
	$(DISPOSABLE) -durable -server '$(SERVER)' env AGENTSTORE_TEST_FULL=1 go test -timeout 20m -v -count 1 ./tests/soak

.PHONY: generate
generate: $(SQLC) ## Generate db/, docs/guarantees.md, docs/data-model.md, and what tells an observer
	$(SQLC) generate
	go run ./tests/cmd/guarantees
	go run ./tests/cmd/datamodel
	go run ./tests/cmd/observed

.PHONY: verify
verify: verify/generate verify/queries verify/modules ## Run all verify targets below

.PHONY: verify/generate
verify/generate: $(SQLC) ## Check that what is generated is current
	$(SQLC) diff
	go test -run '^TestCurrent$$' ./tests/cmd/datamodel ./tests/cmd/guarantees ./tests/cmd/observed

.PHONY: verify/queries
verify/queries: $(SQLC) ## Prepare each query on a migrated database
	$(DISPOSABLE) -server '$(SERVER)' bash -c 'go run ./cmd/agentstore migrate up && $(SQLC) vet'

.PHONY: verify/modules
verify/modules: ## Check each go.mod, and the list of modules that importers download
	for module in . $(MODULES); do (cd $$module && export GOWORK=off && go mod tidy -diff && go build ./...); done
	tests/imports/list.sh | diff tests/imports/modules.txt - || { echo "the modules that importers download have changed. If that is intended: tests/imports/list.sh > tests/imports/modules.txt"; exit 1; }

.PHONY: lint
lint: $(LINT) ## Lint
	$(LINT) run $(PACKAGES)

# The database of vulnerabilities is on the network, which not every machine has: the
# hosted workflow runs this, and .ci/run does not.
.PHONY: vulncheck
vulncheck: $(VULN) ## Look for known vulnerabilities in what the library and the command call
	for module in . $(MODULES); do $(VULN) -C $$module ./...; done

.PHONY: screenshots
screenshots: ## Make the pictures of docs/images, of the inspector in a real browser
	go run ./tests/cmd/screenshots docs/images

.PHONY: size
size: ## Print how large the code, the API, the schema and the documents are
	@go run ./tests/cmd/size -server '$(SERVER)'

.PHONY: image
image: ## Build a PostgreSQL image, for machines without access to a registry; VERSION=13
	bash tests/image/build.sh $(VERSION)

.PHONY: tools
tools: $(SQLC) $(LINT) ## Build the pinned tools into bin/

$(SQLC): tools/go.mod tools/go.sum
	cd tools && GOWORK=off CGO_ENABLED=0 go build -o ../bin/ github.com/sqlc-dev/sqlc/cmd/sqlc

$(LINT): tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && GOWORK=off CGO_ENABLED=0 go build -o ../../bin/ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(VULN): tools/vuln/go.mod tools/vuln/go.sum
	cd tools/vuln && GOWORK=off CGO_ENABLED=0 go build -o ../../bin/ golang.org/x/vuln/cmd/govulncheck

.PHONY: clean
clean: ## Remove bin/
	rm -rf bin
