package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/go-kit/log"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/thanos-io/thanos/pkg/block"
	"github.com/thanos-io/thanos/pkg/block/metadata"
	"github.com/thanos-io/thanos/pkg/compact"
)

// ranges are those of `thanos compact`, in milliseconds.
var ranges = []int64{
	time.Hour.Milliseconds(),
	(2 * time.Hour).Milliseconds(),
	(8 * time.Hour).Milliseconds(),
	(48 * time.Hour).Milliseconds(),
	(14 * 24 * time.Hour).Milliseconds(),
}

// verdict is what Thanos makes of a folder of blocks. Groups are all blocks by the key of their compaction group;
// Overlapping names the groups in which, duplicates aside, blocks overlap in time: there `thanos compact` halts, or,
// with vertical compaction, merges. Plans hold the next compaction of each group. Unreadable are the blocks whose
// meta.json it refuses: one is enough to make a sync fail.
type verdict struct {
	Duplicates  []string            `json:"duplicates"`
	Groups      map[string][]string `json:"groups"`
	Overlapping []string            `json:"overlapping"`
	Plans       map[string][]string `json:"plans"`
	Unreadable  map[string]string   `json:"unreadable"`
}

// gauges counts nothing, for filters that want to count.
type gauges struct{ gauge prometheus.Gauge }

func (g gauges) WithLabelValues(...string) prometheus.Gauge { return g.gauge }

func judge(asked question) (*verdict, error) {
	metas, unreadable, err := read(asked)
	if err != nil {
		return nil, err
	}
	found := &verdict{Duplicates: []string{}, Overlapping: []string{}, Unreadable: unreadable}
	found.Groups = names(byGroup(metas))

	filter := block.NewDeduplicateFilter(1)
	none := gauges{prometheus.NewGauge(prometheus.GaugeOpts{Name: "none"})}
	if err := filter.Filter(context.Background(), metas, none, none); err != nil {
		return nil, err
	}
	for _, id := range filter.DuplicateIDs() {
		found.Duplicates = append(found.Duplicates, id.String())
	}
	sort.Strings(found.Duplicates)

	planned := map[string][]*metadata.Meta{}
	planner := compact.NewTSDBBasedPlanner(log.NewNopLogger(), ranges)
	for key, group := range byGroup(metas) {
		if len(tsdb.OverlappingBlocks(plain(group))) > 0 {
			found.Overlapping = append(found.Overlapping, key)
		}
		plan, err := planner.Plan(context.Background(), group, nil, nil)
		if err != nil {
			return nil, err
		}
		if len(plan) > 0 {
			planned[key] = plan
		}
	}
	sort.Strings(found.Overlapping)
	found.Plans = names(planned)
	return found, nil
}

func read(asked question) (map[ulid.ULID]*metadata.Meta, map[string]string, error) {
	metas, unreadable := map[ulid.ULID]*metadata.Meta{}, map[string]string{}
	keep := func(name string, read func() (*metadata.Meta, error)) {
		if id, ok := block.IsBlockDir(name); ok {
			if meta, err := read(); err != nil {
				unreadable[id.String()] = err.Error()
			} else {
				metas[id] = meta
			}
		}
	}
	for name, text := range asked.Metas {
		keep(name, func() (*metadata.Meta, error) { return metadata.Read(io.NopCloser(strings.NewReader(text))) })
	}
	if asked.Folder == "" {
		return metas, unreadable, nil
	}
	entries, err := os.ReadDir(asked.Folder)
	for _, entry := range entries {
		keep(entry.Name(), func() (*metadata.Meta, error) {
			return metadata.ReadFromDir(filepath.Join(asked.Folder, entry.Name()))
		})
	}
	return metas, unreadable, err
}

// byGroup returns the blocks of each compaction group in the order of their times, as Thanos' grouper does.
func byGroup(metas map[ulid.ULID]*metadata.Meta) map[string][]*metadata.Meta {
	groups := map[string][]*metadata.Meta{}
	for _, meta := range metas {
		key := meta.Thanos.GroupKey()
		groups[key] = append(groups[key], meta)
	}
	for _, group := range groups {
		sort.Slice(group, func(i, j int) bool {
			if group[i].MinTime == group[j].MinTime {
				return group[i].ULID.Compare(group[j].ULID) < 0
			}
			return group[i].MinTime < group[j].MinTime
		})
	}
	return groups
}

func names(groups map[string][]*metadata.Meta) map[string][]string {
	found := map[string][]string{}
	for key, group := range groups {
		for _, meta := range group {
			found[key] = append(found[key], meta.ULID.String())
		}
	}
	return found
}

func plain(group []*metadata.Meta) []tsdb.BlockMeta {
	found := make([]tsdb.BlockMeta, 0, len(group))
	for _, meta := range group {
		found = append(found, meta.BlockMeta)
	}
	return found
}
