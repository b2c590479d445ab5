import { type FormEvent, useEffect, useState } from 'react';
import { entityTypes, logOperations } from '@token-vault/contracts/names';
import { fromInput, toInput } from '../../ui/format.ts';
import { Button, SelectField, TextField } from '../../ui/parts.tsx';
import { defaultRange, type Range, ranges } from './range.ts';

export const filterNames = [
  'range',
  'from',
  'to',
  'actor_id',
  'operation',
  'entity_type',
  'entity_id',
  'transform',
  'reason',
  'trace_id',
] as const;
export type Filters = Partial<Record<(typeof filterNames)[number], string>>;

const any = (names: readonly string[]) => [
  { value: '', label: 'Any' },
  ...names.map((name) => ({ value: name, label: name })),
];

interface FiltersProps {
  readonly filters: Filters;
  readonly range: Range;
  readonly onChange: (filters: Filters) => void;
}

/** The range and the filters of the log. Typed values take effect when they are applied. */
export function FilterForm({ filters, range, onChange }: FiltersProps) {
  const [draft, setDraft] = useState(filters);
  const shown = JSON.stringify(filters);
  useEffect(() => setDraft(JSON.parse(shown) as Filters), [shown]);
  const set = (changes: Filters) => setDraft((before) => ({ ...before, ...changes }));
  const apply = (event: FormEvent) => {
    event.preventDefault();
    onChange(draft);
  };
  const text = (name: keyof Filters, label: string) => (
    <TextField label={label} value={draft[name] ?? ''} onChange={(value) => set({ [name]: value })} />
  );
  return (
    <form className="stack-tight" onSubmit={apply} aria-label="Filters of the log">
      <div className="filters">
        <RangeFields draft={draft} range={range} set={set} />
        {text('actor_id', 'Actor id')}
        <SelectField
          label="Operation"
          value={draft.operation ?? ''}
          choices={any(logOperations)}
          onChange={(operation) => set({ operation })}
        />
        <SelectField
          label="Entity type"
          value={draft.entity_type ?? ''}
          choices={any(entityTypes)}
          onChange={(value) => set({ entity_type: value })}
        />
        {text('entity_id', 'Entity id')}
        <SelectField
          label="Shown as"
          value={draft.transform ?? ''}
          choices={any(['reveal', 'mask', 'redact'])}
          onChange={(transform) => set({ transform })}
        />
        {text('reason', 'Reason, exactly')}
        {text('trace_id', 'Trace id')}
      </div>
      <div className="row">
        <Button type="submit" look="primary">
          Apply
        </Button>
        <Button onClick={() => onChange({})}>Clear</Button>
      </div>
    </form>
  );
}

interface RangeFieldsProps {
  readonly draft: Filters;
  readonly range: Range;
  readonly set: (changes: Filters) => void;
}

function RangeFields({ draft, range, set }: RangeFieldsProps) {
  const isChosen = Boolean(draft.from && draft.to);
  const from = draft.from || range.from.toISOString();
  const to = draft.to || range.to.toISOString();
  const valueOf = (time: string) => toInput(new Date(time));
  return (
    <>
      <SelectField
        label="Time"
        value={isChosen ? 'chosen' : draft.range || defaultRange}
        choices={[...ranges, { value: 'chosen', label: 'From … to …' }]}
        onChange={(value) => set(value === 'chosen' ? { from, to } : { range: value, from: '', to: '' })}
      />
      <TextField
        label="From (UTC)"
        type="datetime-local"
        value={valueOf(from)}
        onChange={(value) => set({ from: fromInput(value) ?? from, to })}
      />
      <TextField
        label="To (UTC)"
        type="datetime-local"
        value={valueOf(to)}
        onChange={(value) => set({ from, to: fromInput(value) ?? to })}
      />
    </>
  );
}
