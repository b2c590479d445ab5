-- A reader of the log reads up to the head. A head that stood lower for a moment would hide the events behind it from that reader.
create trigger never_falls before update on event_store.head
  for each row when (new.position < old.position) execute function event_store.refuse_change();
