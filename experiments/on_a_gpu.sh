#!/usr/bin/env bash
# The experiments on one GPU inside a time limit, and what they found packed into a few files.
#
#   experiments/on_a_gpu.sh PROGRAM FOLDER [SECONDS]
#
# PARTS says which; "pair table" is what is made if it is not set:
#
#   pair      experiments/embedded_pair.sh
#   table     experiments/alpha_table.sh
#   million   experiments/hundred_million.sh
#   family    experiments/family.sh
#   low-tau   DeltaNet and slow KDA of the family with SANE at run time, tau below 1
#   larger    the family in 28 to 32 million parameters (LARGER: its variants, LARGER_NAMES: its models), tuned with SANE
#             and with SANE from the first step
#   first     DeltaNet, slow KDA and slow Gated DeltaNet of the family with SANE from the first step
#   far       of the table, FAR_SEEDS (1), FAR_ALPHAS (0 3 8) and FAR_RUN_TIME (alphas; none) to a hundred million tokens
#   languages rwkv7-slow of the family, trained and read with half of the sentences in Chinese
#   usual     an RWKV-7 of 0.1 billion parameters with the usual initialization, USUAL_STEPS (12000) of 64 x 512 bytes of
#             a wider text, then USUAL_LONG_STEPS (3300) of 8 x 4096, each read to a hundred million tokens
#
# They run beside each other, each with JOBS processes ("far": FAR_JOBS, 2); "million", "far" and "usual" go first where they compete.
# FOLDER gets log.txt; of the pair pair.tar.gz, baseline.safetensors and sane.safetensors; of the others PART.tar.gz
# (tables, configurations, logs, what streams recorded but for single heads and single tokens), and figures.tar.gz: all
# records of FIGURE_RUNS.
#
# The work is done in $WORK, by default /tmp/deltasane-experiments. A second start with the same one
# continues where the first was stopped, by the limit or by anything else. JOBS processes share the GPU;
# in training each takes about 6 GB of its memory. The last PACKING (40) seconds are kept for packing; with no more
# nothing else is done, also beside a run that continues: so one can look at what that has found so far.
set -u
program=$(realpath "$1") folder=$2 limit=${3:-330}
here=$(dirname "$(realpath "$0")") work=${WORK:-/tmp/deltasane-experiments}
PARTS=${PARTS:-"pair table"} PACKING=${PACKING:-40}
FIGURE_RUNS=${FIGURE_RUNS:-"alpha-0-seed1-corpus9 alpha-1-seed1-corpus9 alpha-3-seed1-corpus9 alpha-10-seed1-corpus9"}
export BEGIN=${BEGIN:-$(date +%s)} DEVICE=${DEVICE:-cuda} JOBS=${JOBS:-12} THREADS=${THREADS:-2}
mkdir -p "$folder" "$work"
folder=$(realpath "$folder")

# part_of NAME: script, its settings, and rank: 0 goes first where parts compete. What reads a hundred million tokens
# takes longest, and little of the GPU.
part_of() {
  rank=1 settings=()
  case $1 in
  pair) script=embedded_pair.sh ;;
  table) script=alpha_table.sh ;;
  million) script=hundred_million.sh rank=0 ;;
  family) script=family.sh ;;
  low-tau)
    script=family.sh
    settings=(VARIANTS="deltanet kda-slow" NAMES=control RUN_TIME="tau-0.1 tau-0.03 tau-0.3")
    ;;
  larger)
    script=family.sh
    settings=(VARIANTS="${LARGER:-deltanet kda-slow gdn-slow}" NAMES="${LARGER_NAMES:-control tuned first}" RUN_TIME="tau-0.1"
      LAYERS=8 CHANNELS=512 STEPS=800)
    ;;
  first)
    script=family.sh
    settings=(VARIANTS="deltanet kda-slow gdn-slow" NAMES=first RUN_TIME=)
    ;;
  far)
    script=alpha_table.sh rank=0
    settings=(JOBS="${FAR_JOBS:-2}" SEEDS="${FAR_SEEDS:-1}" ALPHAS="${FAR_ALPHAS:-0 3 8}" FIRST_ALPHAS=
      RUN_TIME_ALPHAS="${FAR_RUN_TIME:-}" RUN_TIME_ADAPTIVE= ADAPTIVE_ALPHAS= STREAMS=9:1
      FAR="1048576 10485760 104857600")
    ;;
  languages)
    script=family.sh
    settings=(LANGUAGE=both VARIANTS=rwkv7-slow NAMES="control tuned" RUN_TIME=10)
    ;;
  usual)
    script=family.sh rank=0
    settings=(TEXT=wide VARIANTS=rwkv7 SEEDS=1 NAMES="base long" RUN_TIME= LAYERS=12 CHANNELS=768 RATE=6e-4
      SEQUENCES=64 STEPS="${USUAL_STEPS:-12000}" LONG_SEQUENCES=8 LONG_STEPS="${USUAL_LONG_STEPS:-3300}"
      FAR="1048576 10485760 104857600")
    ;;
  *)
    echo "PARTS: expected some of pair, table, million, family, low-tau, larger, first, far, languages and usual, found '$1'"
    return 1
    ;;
  esac
}
for part in $PARTS; do part_of "$part" || exit 2; done

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

pack_part() {  # name
  pack_files "$1" "$1" \( -name '*.csv' -o -name '*.toml' -o -name '*.md' -o -name '*.txt' -o -name '*.log' \
    -o -name '*metrics.jsonl' -o -name problems.jsonl -o -name scores.json -o -name run.json \
    -o -name '*.rec' -o -path '*/models/*-seed?' \) ! -path '*/stream/*/csv/*' ! -name heads.csv \
    ! -name heads.rec ! -name losses.rec ! -name speed.csv
}

pack_rest() {
  cp "$work"/pair/chosen/*.safetensors "$folder" 2>/dev/null
  local part run runs=()
  for run in $FIGURE_RUNS; do
    for part in table million; do
      [ -e "$work/$part/stream/$run/heads.rec" ] && runs+=("$part/stream/$run")
    done
  done
  [ ${#runs[@]} -gt 0 ] && pack_files figures "${runs[@]}" -name '*.rec' ! -path 'million/*/losses.rec'
}

make_part() {  # name
  part_of "$1"
  CUDA_MPS_CLIENT_PRIORITY=$rank nice -n $((5 * rank)) \
    env "${settings[@]}" "$here/$script" "$program" "$work/$1" $((limit - PACKING))
  pack_part "$1"
}

{
  [ "$limit" -gt "$PACKING" ] && share_gpu
  for part in $PARTS; do make_part "$part" & done
  wait
  [ "$limit" -gt "$PACKING" ] && end_sharing
  pack_rest
  ls -la "$folder"
  echo "total $(($(date +%s) - BEGIN)) s"
} 2>&1 | tee "$folder/log.txt"
