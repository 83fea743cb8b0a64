#!/usr/bin/env bash
# Both experiments on one GPU inside a time limit, and what they found packed into a few files.
#
#   experiments/on_a_gpu.sh PROGRAM FOLDER [SECONDS]
#
# FOLDER gets baseline.safetensors and sane.safetensors (the embedded pair), pair.tar.gz and
# table.tar.gz (tables, configurations, logs, records of streams) and log.txt. The work is done in $WORK, by default
# /tmp/deltasane-experiments, which a second start goes on from.
set -u
program=$(realpath "$1") folder=$2 limit=${3:-330}
here=$(dirname "$(realpath "$0")") work=${WORK:-/tmp/deltasane-experiments}
export BEGIN=${BEGIN:-$(date +%s)} DEVICE=${DEVICE:-cuda}
mkdir -p "$folder" "$work"
folder=$(realpath "$folder")

# Where NVIDIA's service for sharing a GPU among processes works, small models run beside each other.
share_gpu() {
  [ "$DEVICE" = cpu ] && return 0
  command -v nvidia-cuda-mps-control >/dev/null || { echo "no MPS"; return 0; }
  export CUDA_MPS_PIPE_DIRECTORY=$work/mps CUDA_MPS_LOG_DIRECTORY=$work/mps
  mkdir -p "$work/mps"
  printf '[model]\nlayers = 1\nchannels = 64\n[corpus]\nsource = "math-chat:"\n[optimizer]\nkind = "adamw"\nsteps = 1\nsequences = 1\ncontext = 64\nrate = 1e-3\n[run]\nfolder = "%s/mps/trial"\n' "$work" >"$work/mps/trial.toml"
  rm -rf "$work/mps/trial"
  if nvidia-cuda-mps-control -d && timeout 20 "$program" train "$work/mps/trial.toml" --device cuda; then
    echo "MPS is on"
  else
    echo "MPS does not work here; processes take turns"
    end_sharing
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  fi
}
end_sharing() {
  [ -n "${CUDA_MPS_PIPE_DIRECTORY:-}" ] && echo quit | timeout 5 nvidia-cuda-mps-control
}

pack() {
  cp "$work"/pair/chosen/*.safetensors "$folder" 2>/dev/null
  local part
  for part in pair table; do
    (cd "$work" && find "$part" -type f \( -name '*.csv' -o -name '*.toml' -o -name '*.md' \
      -o -name '*.txt' -o -name '*.log' -o -name '*metrics.jsonl' -o -name 'problems.jsonl' \
      -o -name 'scores.json' -o -name 'run.json' -o -name '*.rec' -o -path '*/models/*' \) \
      ! -name heads.csv -print0 | tar -czf "$folder/$part.tar.gz" --null -T -)
  done
}

{
  share_gpu
  "$here/embedded_pair.sh" "$program" "$work/pair" $((limit - 18)) &
  pair=$!
  "$here/alpha_table.sh" "$program" "$work/table" $((limit - 18)) &
  table=$!
  wait $pair
  cp "$work"/pair/chosen/*.safetensors "$folder" 2>/dev/null
  wait $table
  end_sharing
  pack
  ls -la "$folder"
  echo "total $(($(date +%s) - BEGIN)) s"
} 2>&1 | tee "$folder/log.txt"
