#!/usr/bin/env bash
# The experiments on one GPU inside a time limit, and what they found packed into a few files.
#
#   experiments/on_a_gpu.sh PROGRAM FOLDER [SECONDS]
#
# PARTS says which: "table" (experiments/alpha_table.sh), "pair" (experiments/embedded_pair.sh), "million"
# (experiments/hundred_million.sh), "family" (experiments/family.sh) or several of them; "pair table" is what is made if
# it is not set. They run beside each other, each with JOBS processes; "million" goes first where they compete.
# FOLDER gets log.txt; of the pair pair.tar.gz, baseline.safetensors and sane.safetensors; of the others PART.tar.gz
# (tables, configurations, logs, what streams recorded but for single heads and single tokens), and figures.tar.gz: all
# records of FIGURE_RUNS.
#
# The work is done in $WORK, by default /tmp/deltasane-experiments. A second start with the same one
# continues where the first was stopped, by the limit or by anything else. JOBS processes share the GPU;
# in training each takes about 6 GB of its memory. The last 40 seconds are kept for packing; with 40 or less
# nothing else is done, also beside a run that continues: so one can look at what that has found so far.
set -u
program=$(realpath "$1") folder=$2 limit=${3:-330}
here=$(dirname "$(realpath "$0")") work=${WORK:-/tmp/deltasane-experiments}
PARTS=${PARTS:-"pair table"}
FIGURE_RUNS=${FIGURE_RUNS:-"alpha-0-seed1-corpus9 alpha-1-seed1-corpus9 alpha-3-seed1-corpus9 alpha-10-seed1-corpus9"}
export BEGIN=${BEGIN:-$(date +%s)} DEVICE=${DEVICE:-cuda} JOBS=${JOBS:-12} THREADS=${THREADS:-2}
mkdir -p "$folder" "$work"
folder=$(realpath "$folder")
for part in $PARTS; do
  case $part in
  pair | table | million | family) ;;
  *)
    echo "PARTS: expected some of pair, table, million and family, found '$part'"
    exit 2
    ;;
  esac
done

# Where NVIDIA's service for sharing a GPU among processes works, small models run beside each other.
share_gpu() {
  [ "$DEVICE" = cpu ] && return 0
  command -v nvidia-cuda-mps-control >/dev/null || { echo "no MPS"; return 0; }
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
  mkdir -p "$work/mps"
  end_sharing >/dev/null 2>&1 && sleep 2  # one that a start before this has left
  printf '[model]\nlayers = 1\nchannels = 64\n[corpus]\nsource = "math-chat:"\n[optimizer]\nkind = "adamw"\nsteps = 1\nsequences = 1\ncontext = 64\nrate = 1e-3\n[run]\nfolder = "%s/mps/trial"\n' "$work" >"$work/mps/trial.toml"
  rm -rf "$work/mps/trial"
  if nvidia-cuda-mps-control -d && timeout --foreground 20 "$program" train "$work/mps/trial.toml" --device cuda; then
    echo "MPS is on"
  else
    echo "MPS does not work here; processes take turns"
    end_sharing
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  fi
}
end_sharing() {
  [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo quit | timeout --foreground 5 nvidia-cuda-mps-control
}

# pack_files NAME WHERE...: what find finds there
pack_files() {
  local name=$1
  shift
  (cd "$work" && find "$@" -type f -print0 | tar -czf "$folder/$name.tar.gz" --null -T -)
}

pack() {
  cp "$work"/pair/chosen/*.safetensors "$folder" 2>/dev/null
  local part run runs=() kept=(-name '*.csv' -o -name '*.toml' -o -name '*.md' -o -name '*.txt' -o -name '*.log'
    -o -name '*metrics.jsonl' -o -name problems.jsonl -o -name scores.json -o -name run.json
    -o -name '*.rec' -o -path '*/models/*-seed?')
  for part in $PARTS; do
    pack_files "$part" "$part" \( "${kept[@]}" \) ! -path '*/stream/*/csv/*' ! -name heads.csv \
      ! -name heads.rec ! -name losses.rec ! -name speed.csv
  done
  for run in $FIGURE_RUNS; do
    for part in table million; do
      [ -e "$work/$part/stream/$run/heads.rec" ] && runs+=("$part/stream/$run")
    done
  done
  [ ${#runs[@]} -gt 0 ] && pack_files figures "${runs[@]}" -name '*.rec' ! -path 'million/*/losses.rec'
}

{
  [ "$limit" -gt 40 ] && share_gpu
  for part in $PARTS; do
    case $part in
    pair) script=embedded_pair.sh ;;
    table) script=alpha_table.sh ;;
    million) script=hundred_million.sh ;;
    family) script=family.sh ;;
    esac
    # A stream of a hundred million tokens takes longest, and little of the GPU.
    rank=1
    [ "$part" = million ] && rank=0
    CUDA_MPS_CLIENT_PRIORITY=$rank nice -n $((5 * rank)) "$here/$script" "$program" "$work/$part" $((limit - 40)) &
  done
  wait
  [ "$limit" -gt 40 ] && end_sharing
  pack
  ls -la "$folder"
  echo "total $(($(date +%s) - BEGIN)) s"
} 2>&1 | tee "$folder/log.txt"
