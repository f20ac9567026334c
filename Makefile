SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help

# What a caller may set: make test PKG=./schema, make fuzz FUZZTIME=1m, make bench BENCH=Codec COUNT=5
FUZZTIME ?= 10s
BENCH ?= .
BENCH_KAFKA ?= Pipeline|TransactionCost
COUNT ?= 10
RUNS ?= 50
# Tests of one package that may run at once. Those that are marked parallel wait
# for processes and brokers most of the time, so there are more than cores.
PARALLEL ?= 6
SEEDS ?= 10000
PKG ?= ./...
OLD ?=
NEW ?=

# The folder that PKG names, for what searches files.
FOLDER = $(patsubst %/...,%,$(PKG))

TOOL := go tool -modfile=.ci/tools.mod

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | sort | awk -F '\t' '{printf "  %-16s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## Run the quickstart example, without a broker
	go run ./examples/quickstart

.PHONY: fmt
fmt: ## Format the code
	gofmt -w .

.PHONY: fmt-check
fmt-check: ## Fail if code is not formatted
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet, on the integration and mutation tests too
	go vet -tags integration,mutants ./...

.PHONY: lint
lint: vet ## Run go vet and staticcheck with all checks
	$(TOOL) staticcheck -tags integration,mutants ./...

.PHONY: tidy-check
tidy-check: ## Fail if go.mod or go.sum is not tidy
	go mod tidy -diff

.PHONY: build
build: ## Compile every package
	go build ./...

.PHONY: test
test: ## Run all tests that need nothing but Go, under the race detector
	go test -race -shuffle=on -parallel $(PARALLEL) -timeout 20m $(PKG)

.PHONY: simulate
simulate: ## Simulate SEEDS leader elections, and runners for 50 seconds, without the race detector, which allows few
	go test -count=1 -run '^TestSimulated(Elections|Days)$$' ./coordination -sim.seeds $(SEEDS) -sim.days 100
	go test -count=1 -run '^TestSimulatedRunners$$' ./columnar -sim.seeds $(SEEDS) -sim.for 50s

.PHONY: mutants
mutants: ## Change the coordination package in many ways and see that its tests notice
	go test -count=1 -timeout 2h -tags mutants -run '^TestMutants$$' ./coordination

.PHONY: synctests
synctests: ## Run the elections in bubbles with the locks of the Kafka client visible to fake time
	go test -race -tags synctests ./coordination

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' $(FOLDER) | sed -E 's|^(.*)/[^/]+:[0-9]+:func (.*)$$|\1 \2|' | sort -u | \
	while read -r dir target; do \
		echo "$$dir $$target"; \
		go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null; \
	done

.PHONY: stress
stress: ## Repeat all tests COUNT times, in other orders and with other seeds
	go test -race -shuffle=on -timeout 1h -count $(COUNT) $(PKG)

.PHONY: bench
bench: ## Run the benchmarks COUNT times and keep the output in build/bench.txt
	@mkdir -p build
	go test -run '^$$' -bench '$(BENCH)' -count $(COUNT) $(PKG) | tee build/bench.txt

.PHONY: bench-once
bench-once: ## Run every benchmark once, to see that it works
	go test -run '^$$' -bench . -benchtime 1x ./...

.PHONY: bench-compare
bench-compare: ## Compare two files of benchmark output: OLD=a.txt NEW=b.txt
	@[ -n "$(OLD)" ] && [ -n "$(NEW)" ] || { echo "usage: make bench-compare OLD=a.txt NEW=b.txt"; exit 2; }
	$(TOOL) benchstat $(OLD) $(NEW)

.PHONY: cover
cover: ## Measure the coverage of each package, details in build/cover.out
	@mkdir -p build
	go test -coverprofile build/cover.out $(PKG)
	@go tool cover -func build/cover.out | tail -n 1

.PHONY: api
api: ## Rewrite docs/api.txt, the list of the exported API
	go test -count=1 -run '^TestAPIMatchesItsList$$' . -update

.PHONY: api-check
api-check: ## Compare the exported API with docs/api.txt
	go test -count=1 -run 'API' .

.PHONY: examples
examples: ## Run every example against doubles and compare what it prints
	go test ./examples/...

# The integration tests, by their build tag: folders and names.
INTEGRATION_FILES = $$(grep -rl --include='*_test.go' '^//go:build integration' $(FOLDER) || true)

.PHONY: integration
integration: build/withkafka ## Run the integration tests on a broker and a registry that it starts
	@files="$(INTEGRATION_FILES)"; \
	packages=$$(dirname $$files | sort -u); \
	tests=$$(sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' $$files | sort -u | paste -sd '|'); \
	exec build/withkafka go test -race -count=1 -p 1 -timeout 30m -tags integration -run "^($$tests)$$" $$packages

.PHONY: build/withkafka
build/withkafka:
	@mkdir -p build
	@go build -o $@ ./internal/kafkatest/withkafka

.PHONY: exactness
exactness: build/withkafka ## Kill members at random moments on a real broker, RUNS times, a seed each
	exec build/withkafka go test -count=$(RUNS) -timeout 2h -tags integration -run '^TestRealCountsAreExactThroughKills$$' -v ./columnar/kafka

.PHONY: pauses
pauses: build/withkafka ## Stop members past each time-out on a real broker, and continue them
	exec build/withkafka go test -race -count=1 -timeout 1h -tags integration,pauses -run Pauses -v ./columnar/kafka

.PHONY: closed-cuts
closed-cuts: build/withkafka ## See that every cut closes on a real broker, a minute for each rate of records and number of members
	exec build/withkafka go test -count=1 -timeout 1h -tags integration -run '^TestOnRealCluster$$/^every_cut' -v ./columnar/kafka -cuts.time 1m

.PHONY: take-overs
take-overs: build/withkafka ## Kill 40 leaders on a real broker, and see that the next one leads in time
	exec build/withkafka go test -count=1 -timeout 1h -tags integration -run '^TestStandbysTakeOverFromKilledProcessesOnKafka$$' -v ./coordination -kills 20

.PHONY: bench-kafka
bench-kafka: build/withkafka ## Run the pipeline benchmarks on a real broker: BENCH_EVENTS=2000000 BENCH_KAFKA=AvroPipeline
	exec build/withkafka go test -run '^$$' -bench '$(BENCH_KAFKA)' -benchtime 1x -count $(COUNT) -timeout 2h ./columnar/kafka

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities; needs the vulnerability database
	$(TOOL) govulncheck ./...

# What .ci/run runs, in this order: the quick checks first.
CI_STEPS := fmt-check lint tidy-check build test simulate synctests bench-once integration

.PHONY: ci
ci: ## Run every check that .ci/run runs, and print the time of each
	@mkdir -p build/ci
	@times=""; for step in $(CI_STEPS); do \
		echo "ci: make $$step"; start=$$SECONDS; failed=""; \
		$(MAKE) $$step 2>&1 | tee build/ci/$$step.log || failed=yes; \
		times+=$$(printf '%6d s  %s' $$((SECONDS - start)) $$step)$$'\n'; \
		if [ "$$failed" ]; then \
			printf 'ci: time of each step:\n%s' "$$times"; \
			packages=$$(sed -nE 's#^FAIL[[:space:]]+github.com/krabka-io/krabka-streams-go([^ [:space:]]*).*#.\1#p' build/ci/$$step.log | sort -u); \
			echo "ci: make $$step failed; what repeats it:"; \
			if [ -z "$$packages" ]; then echo "  make $$step"; else for package in $$packages; do echo "  make $$step PKG=$$package"; done; fi; \
			exit 1; \
		fi; \
	done; printf 'ci: time of each step:\n%s' "$$times"

.PHONY: clean
clean: ## Remove what the other targets made
	rm -rf build
