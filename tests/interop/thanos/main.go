// Program oracle shows what the real Thanos makes of folders of blocks.
//
// Every line of its input is a question, every line of its output the answer to it, both in JSON. A question names a
// folder, which holds one folder per block, and what to do with it: "judge" looks only, "round" does what an iteration
// of `thanos compact` does to it. What is only looked at can be in the question itself.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// question is a line of the input. Delays are seconds; Metas hold every meta.json by the ULID of its block's folder.
type question struct {
	Do               string            `json:"do"`
	Folder           string            `json:"folder"`
	Metas            map[string]string `json:"metas"`
	DeleteDelay      int64             `json:"delete_delay"`
	ConsistencyDelay int64             `json:"consistency_delay"`
	Vertical         bool              `json:"vertical"`
}

func main() {
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func answer(in io.Reader, out io.Writer) error {
	decoder := json.NewDecoder(bufio.NewReader(in))
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for {
		var asked question
		if err := decoder.Decode(&asked); err == io.EOF {
			return buffered.Flush()
		} else if err != nil {
			return err
		}
		found, err := work(asked)
		if err != nil {
			return fmt.Errorf("%s %q: %w", asked.Do, asked.Folder, err)
		}
		if err := encoder.Encode(found); err != nil {
			return err
		}
	}
}

func work(asked question) (any, error) {
	switch asked.Do {
	case "judge":
		return judge(asked)
	case "round":
		return round(asked)
	default:
		return nil, fmt.Errorf("nothing is known of %q", asked.Do)
	}
}
