exec {_control}<&0 </dev/null
printf '0 0 0\n' >&"$_control"
while IFS=' ' read -r -u "$_control" _number _size; do
    LC_ALL=C IFS= read -r -u "$_control" -N "$_size" _code
    eval "$_code"
    printf '%s %s 0\n' "$_number" "$?" >&"$_control"
done
