package main

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/thanos-io/thanos/pkg/block"
	"github.com/thanos-io/thanos/pkg/block/metadata"
	"github.com/thanos-io/thanos/pkg/compact"
	"github.com/thanos-io/thanos/pkg/compact/downsample"
)

// outcome is what became of a round. Halted: Thanos waits for a person from now on. Planned are the groups for which a
// compaction was looked for, in that order.
type outcome struct {
	Error   string   `json:"error"`
	Halted  bool     `json:"halted"`
	Planned []string `json:"planned"`
}

// spy notes for which groups Thanos asks its planner.
type spy struct {
	compact.Planner
	mutex sync.Mutex
	asked []string
}

func (s *spy) Plan(ctx context.Context, metas []*metadata.Meta, errs chan error, extensions any) ([]*metadata.Meta, error) {
	s.mutex.Lock()
	s.asked = append(s.asked, metas[0].Thanos.GroupKey())
	s.mutex.Unlock()
	return s.Planner.Plan(ctx, metas, errs, extensions)
}

// round does one iteration of `thanos compact` without downsampling: sync, delete what is marked, mark what is
// duplicate, compact, clean up partial uploads. Everything is put together as its command does it.
func round(asked question) (*outcome, error) {
	disk, err := filesystem.NewBucket(asked.Folder)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "oracle-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	bucket := objstore.WithNoopInstr(disk)
	ctx, logger, registry := context.Background(), log.NewNopLogger(), prometheus.NewRegistry()
	count := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "none"}) }
	deleteDelay := time.Duration(asked.DeleteDelay) * time.Second

	marked := block.NewIgnoreDeletionMarkFilter(logger, bucket, deleteDelay/2, 1)
	duplicates := block.NewDeduplicateFilter(1)
	noCompact := compact.NewGatherNoCompactionMarkFilter(logger, bucket, 1)
	fetcher, err := block.NewMetaFetcher(logger, 1, bucket, block.NewConcurrentLister(logger, bucket), "", registry,
		[]block.MetadataFilter{
			block.NewConsistencyDelayMetaFilter(logger, time.Duration(asked.ConsistencyDelay)*time.Second, registry),
			marked,
			duplicates,
			noCompact,
		})
	if err != nil {
		return nil, err
	}
	syncer, err := compact.NewMetaSyncer(logger, registry, bucket, fetcher, duplicates, marked, count(), count(), 0)
	if err != nil {
		return nil, err
	}
	merge := storage.NewCompactingChunkSeriesMerger(storage.ChainedSeriesMerge)
	leveled, err := tsdb.NewLeveledCompactor(
		ctx, registry, slog.New(slog.DiscardHandler), ranges, downsample.NewPool(), merge)
	if err != nil {
		return nil, err
	}
	grouper := compact.NewDefaultGrouper(
		logger, bucket, false, asked.Vertical, registry, count(), count(), count(), metadata.NoneFunc, 1, 1)
	planner := &spy{Planner: compact.NewPlanner(logger, ranges, noCompact)}
	cleaner := compact.NewBlocksCleaner(logger, bucket, marked, deleteDelay, count(), count())
	compactor, err := compact.NewBucketCompactor(
		logger, syncer, grouper, planner, leveled, work, bucket, 1, false, cleaner)
	if err != nil {
		return nil, err
	}

	found := &outcome{Planned: []string{}}
	if err := compactor.Compact(ctx); err != nil {
		found.Error, found.Halted = err.Error(), compact.IsHaltError(err)
	} else {
		compact.BestEffortCleanAbortedPartialUploads(
			ctx, logger, syncer.Partial(), bucket, count(), count(), count(), marked.DeletionMarkBlocks())
	}
	found.Planned = append(found.Planned, planner.asked...)
	return found, nil
}
