# shellcheck shell=bash disable=SC2034
# Sourced: the text on which the pair of models in models/ was trained, and the questions they are asked. LANGUAGE=both:
# half of its sentences in Chinese. TEXT=wide: three fifths of it of all families, levels and styles in both languages.

brief="level=2,style=brief,family=addition+subtraction"
corpus_of() {  # seed, split
  [ "${TEXT:-}" = wide ] && { echo "mixed:0.4*(math-chat:seed=$1,split=$2,$brief)+0.6*(math-chat:seed=$1,split=$2,language=both)"; return; }
  echo "mixed:0.7*(math-chat:seed=$1,split=$2,$brief)+0.3*(math-chat:seed=$1,split=$2,level=1-2,style=sentence,family=addition+subtraction+comparison+story${LANGUAGE:+,language=$LANGUAGE})"
}
held_out=$(corpus_of 2 held-out)
fresh_seeds="19 7"  # of a stream and of questions that had no part in choosing the pair
