/** The common parts of the examples of the document. */
export const tenantId = '6f1c0f2e-6a0e-4a86-9a53-5d7d5a1f6d11';
export const applicationId = '3c9d3c64-9a0b-4a77-8a66-2d9fb3c0c3a5';
export const created = { created_by: applicationId, created_at: '2026-01-31T09:30:00.000Z' };
const one = { total_items: 1, page_number: 1, page_size: 20, total_pages: 1 };
export const listOf = (item: unknown) => ({ pagination: one, data: [item] });

export const transaction = {
  id: 'a4f6f0d1-52d0-4ae5-9d51-7f53a5f8c0aa',
  ...created,
  expires_at: '2026-01-31T10:30:00.000Z',
};
