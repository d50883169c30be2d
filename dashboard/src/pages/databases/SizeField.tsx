import { useQuery } from "@tanstack/react-query";
import { DATABASE_SIZES, type DatabaseSize, templateOfSize } from "@/data/databases";
import { templatesQuery } from "@/data/queries";
import { Field, Select } from "@/ui";

const SIZE_NAMES: Record<DatabaseSize, string> = {
  "1g": "1 GiB of memory",
  "4g": "4 GiB of memory",
  "16g": "16 GiB of memory",
};

/** Chooses a size. One whose template the server does not have can be chosen, and says so. */
export function SizeField(props: {
  size: DatabaseSize;
  hint?: string;
  className?: string;
  onChange: (size: DatabaseSize) => void;
}) {
  const { data: templates } = useQuery(templatesQuery);
  const isBaked = (size: DatabaseSize): boolean =>
    templates?.some(({ name }) => name === templateOfSize(size)) ?? true;
  const missing = isBaked(props.size)
    ? undefined
    : `Not on this server yet; its operator runs: pandastack template bake ${templateOfSize(props.size)}`;
  return (
    <Field label="Size" hint={missing ?? props.hint} className={props.className ?? ""}>
      {(control) => (
        <Select
          {...control}
          value={props.size}
          onChange={(event) => props.onChange(event.target.value as DatabaseSize)}
        >
          {DATABASE_SIZES.map((one) => (
            <option key={one} value={one}>
              {SIZE_NAMES[one]}
              {isBaked(one) ? "" : " (not baked)"}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
