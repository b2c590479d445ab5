import { z } from 'zod';

export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max));

/** `page` from 1, `size` 0–100; `size=0` asks for the pagination object only (rules.md §1). */
export const paging = {
  page: wholeNumber(1, 999_999_999).default(1),
  size: wholeNumber(0, 100).default(20),
};

/** A query parameter that may be repeated; Express gives a text or an array of texts. */
export const repeatable = <Schema extends z.ZodType<unknown, string>>(schema: Schema) =>
  z.preprocess(
    (value): unknown[] => (value === undefined ? [] : Array.isArray(value) ? (value as unknown[]) : [value]),
    z.array(schema).max(200),
  );

export const pagination = z.object({
  total_items: z.int(),
  page_number: z.int(),
  page_size: z.int(),
  total_pages: z.int(),
});
export type Pagination = z.infer<typeof pagination>;

export const page = <Item extends z.ZodType>(item: Item) => z.object({ pagination, data: z.array(item) });
